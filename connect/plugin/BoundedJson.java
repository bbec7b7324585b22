package cdc.connect;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * JSON as Kafka Connect writes it, up to a size: what a producer says of a message that is too large names neither its
 * table nor its key.
 *
 * Configured by `max.bytes`, of key and value together. Connect converts a record's key and then its value, on one
 * thread (Kafka Connect, `AbstractWorkerSourceTask.convertTransformedRecord`).
 */
public final class BoundedJson extends JsonConverter {

    private static final ThreadLocal<byte[]> KEY = new ThreadLocal<>();

    private boolean isKey;
    private long most = Long.MAX_VALUE;

    @Override
    public void configure(Map<String, ?> settings, boolean isKey) {
        super.configure(settings, isKey);
        this.isKey = isKey;
        Object limit = settings.get("max.bytes");
        if (limit != null) {
            most = Long.parseLong(limit.toString());
        }
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        byte[] written = super.fromConnectData(topic, schema, value);
        if (isKey) {
            KEY.set(written);
        } else if (written != null) {
            check(topic, value, written.length);
        }
        return written;
    }

    private void check(String topic, Object value, long length) {
        byte[] key = KEY.get();
        long together = length + (key == null ? 0 : key.length);
        if (together > most) {
            String row = key == null ? "without a key" : "with the key " + new String(key, StandardCharsets.UTF_8);
            throw new DataException(String.format(
                    "a change of %s %s takes %,d bytes, and log.max_row_bytes is %,d", table(topic, value), row, together, most));
        }
    }

    private static String table(String topic, Object value) {
        if (value instanceof Struct && ((Struct) value).schema().field("source") != null) {
            Struct source = ((Struct) value).getStruct("source");
            return source.getString("schema") + "." + source.getString("table");
        }
        return topic;
    }
}
