package cdc.connect;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Writes into Debezium's heartbeats and BEGINs which LSN their offset confirms to the slot, as {@code lsn_commit}.
 *
 * That is a commit's, which the log has as an END, or one of a message outside of transactions
 * ({@code pg_logical_emit_message}), of which the log would say nothing. A transaction's changes confirm no more than
 * its BEGIN does. The LSN with which a task begins is left out: it comes from Connect's offsets, and proves nothing of
 * the log.
 */
public final class ConfirmedLsn extends DebeziumTransformation {

    private static final String CONFIRMED = "lsn_commit";

    private final Map<Schema, Schema> extended = new HashMap<>();
    private boolean hasBegun;
    private Object first;

    @Override
    public SourceRecord apply(SourceRecord sent) {
        Object confirmed = sent.sourceOffset() == null ? null : sent.sourceOffset().get(CONFIRMED);
        if (!hasBegun) {
            hasBegun = true;
            first = confirmed;
        }
        if (!(confirmed instanceof Long) || confirmed.equals(first)
                || !isHeartbeat(sent.value()) && !isEvent(sent.value(), "BEGIN")) {
            return sent;
        }
        Struct value = extend((Struct) sent.value(), (Long) confirmed);
        return sent.newRecord(
                sent.topic(), sent.kafkaPartition(), sent.keySchema(), sent.key(), value.schema(), value, sent.timestamp());
    }

    private Struct extend(Struct value, long confirmed) {
        Struct written = new Struct(extended.computeIfAbsent(value.schema(), ConfirmedLsn::extend));
        for (Field field : value.schema().fields()) {
            written.put(field.name(), value.get(field));
        }
        return written.put(CONFIRMED, confirmed);
    }

    private static Schema extend(Schema schema) {
        SchemaBuilder built = SchemaBuilder.struct().name(schema.name()).version(schema.version());
        schema.fields().forEach(field -> built.field(field.name(), field.schema()));
        return built.field(CONFIRMED, Schema.OPTIONAL_INT64_SCHEMA).build();
    }
}
