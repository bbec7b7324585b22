package cdc.connect;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * A predicate that is never used: Kafka Connect lists those that it has, so that who asks can tell whether a class is
 * there, before a connector is made that needs it.
 */
abstract class ListedPredicate<R extends ConnectRecord<R>> implements Predicate<R> {

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    public boolean test(R record) {
        return false;
    }

    @Override
    public void close() {
    }
}
