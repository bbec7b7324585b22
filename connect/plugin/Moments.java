package cdc.connect;

import io.debezium.connector.postgresql.PostgresValueConverter;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;

/** Dates and timestamps as Postgres writes them in ISO form and UTC, by what Debezium has read of that text. */
final class Moments {

    private Moments() {
    }

    /** The text of a date or a timestamp, null for anything else. Infinities are known by being Debezium's own objects. */
    static String text(Object value) {
        if (value == PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE
                || value == PostgresValueConverter.POSITIVE_INFINITY_INSTANT
                || value == PostgresValueConverter.POSITIVE_INFINITY_OFFSET_DATE_TIME) {
            return "infinity";
        }
        if (value == PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE
                || value == PostgresValueConverter.NEGATIVE_INFINITY_INSTANT
                || value == PostgresValueConverter.NEGATIVE_INFINITY_OFFSET_DATE_TIME) {
            return "-infinity";
        }
        if (value instanceof LocalDate) {
            return date((LocalDate) value) + era((LocalDate) value);
        }
        if (value instanceof Instant) {
            return moment(LocalDateTime.ofInstant((Instant) value, ZoneOffset.UTC), "");
        }
        if (value instanceof OffsetDateTime) {
            return moment(((OffsetDateTime) value).withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime(), "+00");
        }
        return null;
    }

    private static String moment(LocalDateTime value, String zone) {
        String time = String.format("%02d:%02d:%02d", value.getHour(), value.getMinute(), value.getSecond());
        String micros = String.format("%06d", value.getNano() / 1000).replaceFirst("0+$", "");
        String fraction = micros.isEmpty() ? "" : "." + micros;
        return date(value.toLocalDate()) + " " + time + fraction + zone + era(value.toLocalDate());
    }

    private static String date(LocalDate day) {
        // there is no year 0: 1 BC is the year 0 of ISO 8601
        int year = day.getYear() > 0 ? day.getYear() : 1 - day.getYear();
        return String.format("%04d-%02d-%02d", year, day.getMonthValue(), day.getDayOfMonth());
    }

    private static String era(LocalDate day) {
        return day.getYear() > 0 ? "" : " BC";
    }
}
