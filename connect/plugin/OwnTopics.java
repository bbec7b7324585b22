package cdc.connect;

import io.debezium.relational.TableId;
import io.debezium.schema.SchemaTopicNamingStrategy;
import io.debezium.spi.schema.DataCollectionId;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/**
 * A topic of its own for every table. Topics know fewer characters than Postgres, and Debezium writes an underscore for
 * each of the others, so that tables share a topic. A name that is not a topic's as it stands gets a digest behind it
 * (`cdc/log/names.py`, which has to say the same).
 */
public final class OwnTopics extends SchemaTopicNamingStrategy {

    private static final Pattern PLAIN = Pattern.compile("[a-zA-Z0-9_-]+");
    private static final Pattern DIGESTED = Pattern.compile(".*-[0-9a-f]{16}");
    private static final Pattern FOREIGN = Pattern.compile("[^a-zA-Z0-9_-]");
    private static final int LONGEST = 40;

    private final Map<DataCollectionId, String> topics = new ConcurrentHashMap<>();

    public OwnTopics(Properties settings) {
        super(settings);
    }

    @Override
    public String dataChangeTopic(DataCollectionId id) {
        return topics.computeIfAbsent(id, this::topic);
    }

    private String topic(DataCollectionId id) {
        String schema = ((TableId) id).schema();
        String table = ((TableId) id).table();
        boolean plain = PLAIN.matcher(schema).matches() && PLAIN.matcher(table).matches()
                && !DIGESTED.matcher(table).matches();
        String name = plain ? schema + "." + table : part(schema) + "." + part(table) + "-" + digest(schema, table);
        return prefix + "." + name;
    }

    private static String part(String name) {
        String written = FOREIGN.matcher(name).replaceAll("_");
        return written.substring(0, Math.min(written.length(), LONGEST));
    }

    private static String digest(String schema, String table) {
        byte[] name = (schema + "\0" + table).getBytes(StandardCharsets.UTF_8);
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(name), 0, 8);
        } catch (NoSuchAlgorithmException unheardOf) {
            throw new IllegalStateException(unheardOf);
        }
    }
}
