package cdc.connect;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * A transformation without settings, which tells Debezium's own records from changes.
 */
abstract class DebeziumTransformation implements Transformation<SourceRecord> {

    private static final String HEARTBEAT = "io.debezium.connector.common.Heartbeat";
    private static final String TRANSACTION = "io.debezium.connector.common.TransactionMetadataValue";

    static boolean isHeartbeat(Object value) {
        return hasName(value, HEARTBEAT);
    }

    /** Is it a transaction's event of this status, BEGIN or END? */
    static boolean isEvent(Object value, String status) {
        return hasName(value, TRANSACTION) && status.equals(((Struct) value).getString("status"));
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
