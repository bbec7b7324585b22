package cdc.connect;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;

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
public final class WholeTransactions extends DebeziumTransformation {

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
        if (isEvent(sent.value(), "END")) {
            open = null;
            forgetTransaction(offset);
            return sent;
        }
        Object id = offset.get(ID);
        if (!id.equals(open)) {
            if (isHeartbeat(sent.value())) {
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
        // has processed, and keep the LSN of each: without that LSN it takes all. Nor does it look then whether the slot
        // still stands before: that readers miss the END of what began tells of a slot that was made anew
        offset.keySet().removeAll(List.of(PROCESSED, AT_LSN, KIND));
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
}
