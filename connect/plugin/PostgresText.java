package cdc.connect;

import io.debezium.connector.postgresql.UnchangedToastedReplicationMessageColumn;
import io.debezium.spi.converter.CustomConverter;
import io.debezium.spi.converter.RelationalColumn;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.Properties;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.postgresql.util.PGInterval;

/**
 * Sends values as the text that Postgres wrote, where Debezium would read them into types that hold less: of an array
 * of two dimensions it makes nulls, of a time with a zone one in UTC, and of a composite bytes in base64.
 *
 * Configured by `exact.placeholder`, the connector's `unavailable.value.placeholder`, and by `exact.texts`: lines of a
 * table, a tab and a column, whose dates and timestamps are sent as text as well (`listed`). What Debezium calls a
 * converter is asked once for each column, and given each of its values (Debezium, "Custom converters"). It masks, too
 * ({@link Masks}): a column has one converter, and no record ever holds what another one would mask later.
 */
public final class PostgresText<R extends ConnectRecord<R>> extends ListedPredicate<R>
        implements CustomConverter<SchemaBuilder, RelationalColumn> {

    /** Types, by the number that they have in every cluster, whose values Debezium sends whole; a domain has its base's. */
    private static final Set<Integer> SENT_WHOLE = Set.of(
            16, // bool
            17, // bytea
            20, 21, 23, 26, // int8, int2, int4, oid
            25, 1042, 1043, // text, bpchar, varchar
            114, 3802, // json, jsonb
            700, 701, // float4, float8
            1082, 1083, 1114, 1184, // date, time, timestamp, timestamptz
            1700, // numeric
            2950); // uuid

    private static final int LARGEST_SCALE = 1000;

    /** Types that are sent as text where that is chosen: date, timestamp, timestamptz. */
    private static final Set<Integer> MOMENTS = Set.of(1082, 1114, 1184);

    private String placeholder;
    private Set<String> texts;
    private Masks<?> masks;

    @Override
    public void configure(Properties settings) {
        placeholder = settings.getProperty("placeholder");
        if (placeholder == null) {
            throw new IllegalArgumentException("exact.placeholder is not set");
        }
        texts = Set.of(settings.getProperty("texts", "").split("\n"));
        masks = Masks.of(settings);
        if (!reads("infinity")) {
            throw new IllegalStateException("org.postgresql.util.PGInterval is not this jar's, whose path, links followed,"
                    + " has to come before that of postgresql-*.jar");
        }
    }

    /** The driver's own class makes a 0 of some intervals. */
    private static boolean reads(String interval) {
        try {
            return interval.equals(new PGInterval(interval).getValue());
        } catch (SQLException error) {
            return false;
        }
    }

    @Override
    public void converterFor(RelationalColumn column, ConverterRegistration<SchemaBuilder> registration) {
        UnaryOperator<String> mask = masks.find(listed(column.dataCollection()), listed(column.name()));
        if (mask != null) {
            // before a record is made: Connect shows records where one fails. Optional, since a mask may make a null
            registration.register(SchemaBuilder.string().optional(), value -> masked(mask, value));
            return;
        }
        // a scale below 0 is one above 1000 to Debezium, which then writes as many zeros behind the point
        boolean misread = column.scale().orElse(0) > LARGEST_SCALE;
        boolean chosen = MOMENTS.contains(column.nativeType())
                && texts.contains(listed(column.dataCollection()) + "\t" + listed(column.name()));
        if (misread || chosen || !SENT_WHOLE.contains(column.nativeType())) {
            // a deleted row is its key and nothing else, of a column that may not be null, too
            registration.register(SchemaBuilder.string().optional(), this::text);
        }
    }

    /** A name as `debezium_properties.py` writes it into `exact.texts`: one may have tabs and line breaks itself. */
    private static String listed(String name) {
        StringBuilder written = new StringBuilder();
        for (char c : name.toCharArray()) {
            if (c < ' ' || c == '%') {
                written.append(String.format("%%%02x", (int) c));
            } else {
                written.append(c);
            }
        }
        return written.toString();
    }

    private String masked(UnaryOperator<String> mask, Object value) {
        if (value == null || Masks.isNothing(mask)) {
            return null;
        }
        return UnchangedToastedReplicationMessageColumn.isUnchangedToastedValue(value) ? placeholder : mask.apply(text(value));
    }

    private String text(Object value) {
        if (value == null) {
            return null;
        }
        // what stands for a value that was not sent is a bare object of Debezium's
        if (value.getClass() == Object.class) {
            return placeholder;
        }
        // money, which Debezium has read by the locale that it was written in
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).toPlainString();
        }
        String moment = Moments.text(value);
        if (moment != null) {
            return moment;
        }
        // texts, arrays as they were received, and the driver's own intervals and shapes
        return value.toString();
    }
}
