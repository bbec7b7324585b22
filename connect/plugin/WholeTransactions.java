package cdc.connect;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Moves the offsets of records within a transaction back to its begin: a task that is killed sends the whole
 * transaction again.
 *
 * Debezium goes on behind the last change whose offset Kafka Connect has. But one change of the WAL can be several
 * records, all with its LSN: the delete and the create of an updated key, the rows of one COPY. If only some of them were
 * in the batch that Connect committed last, the others are never sent, and the END does not count them. A heartbeat
 * comes before the END of the transaction whose commit it confirms: if it was the batch's last, the END is never sent.
 * Changes that come again have their numbers again, by which readers know them.
 */
public final class WholeTransactions implements Transformation<SourceRecord> {

    private static final String HEARTBEAT = "io.debezium.connector.common.Heartbeat";
    private static final String TRANSACTION = "io.debezium.connector.common.TransactionMetadataValue";
    // the keys of Debezium's offsets (its classes PostgresOffsetContext, SourceInfo and TransactionContext)
    private static final String OF_TRANSACTION = "transaction_";
    private static final String ID = OF_TRANSACTION + "id";
    private static final String LSN = "lsn";
    private static final String PROCESSED = "lsn_proc";
    private static final String COMMITTED = "lsn_commit";
    private static final String AT_LSN = "lsn_events_processed";
    private static final String KIND = "messageType";

    private Object open;
    private Object first;
    private Object before;

    @Override
    @SuppressWarnings("unchecked")
    public SourceRecord apply(SourceRecord sent) {
        if (sent.sourceOffset() == null || !sent.sourceOffset().containsKey(ID)) {
            return sent;
        }
        // changed in place: Connect and Debezium keep this map, and confirm to the slot what it says
        Map<String, Object> offset = (Map<String, Object>) sent.sourceOffset();
        if (isEnd(sent.value())) {
            open = null;
            forgetTransaction(offset);
            return sent;
        }
        Object id = offset.get(ID);
        if (!id.equals(open)) {
            if (hasName(sent.value(), HEARTBEAT)) {
                // the task began behind a commit: was its END sent? This offset must not say so
                offset.clear();
                return null;
            }
            open = id;
            first = offset.get(LSN);
            before = offset.get(COMMITTED);
        }
        moveBack(offset);
        return sent;
    }

    private void moveBack(Map<String, Object> offset) {
        forgetTransaction(offset);
        // Postgres sends whole transactions that commit behind this LSN. Debezium would search them for a change that it
        // has processed, and keep the LSN of each: without that LSN it takes all
        offset.keySet().removeIf(key -> key.equals(PROCESSED) || key.equals(AT_LSN) || key.equals(KIND));
        offset.put(LSN, before != null ? before : first);
        if (before != null) {
            offset.put(COMMITTED, before);
        } else {
            offset.remove(COMMITTED);
        }
    }

    private static void forgetTransaction(Map<String, Object> offset) {
        // else its counters would go on where it begins again
        offset.keySet().removeIf(key -> key.startsWith(OF_TRANSACTION));
    }

    private static boolean isEnd(Object value) {
        return hasName(value, TRANSACTION) && "END".equals(((Struct) value).getString("status"));
    }

    private static boolean hasName(Object value, String name) {
        return value instanceof Struct && name.equals(((Struct) value).schema().name());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    public void close() {
    }
}
