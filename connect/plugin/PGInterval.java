package org.postgresql.util;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.sql.SQLException;
import java.util.Calendar;
import java.util.Date;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An interval that keeps the text that Postgres wrote. It stands before the driver's own class of this name, which makes a
 * 0 of `infinity` (Postgres 17 and newer) and takes no 2^31 hours; behind it nobody could tell.
 *
 * Debezium has no place where an interval could be read otherwise: it has made one of this class of every text before a
 * converter is asked. Kafka Connect reads the jars of a plugin in the order of their real paths (`PluginUtils`), so ours,
 * `cdc-connect-…`, is found before `postgresql-…` in one folder; {@link cdc.connect.PostgresText} looks whether it was.
 *
 * Whoever else has intervals from this driver beside us finds its methods, and the numbers that they gave before; the text
 * is Postgres' own. That is all that an interval is made of: its numbers are read when they are asked for, and are 0 where
 * it is infinite.
 */
public class PGInterval extends PGobject implements Serializable, Cloneable {

    private static final long serialVersionUID = 1L;
    private static final Pattern FIELD = Pattern.compile("([+-]?\\d+(?:\\.\\d+)?) ?([a-z]+)");
    private static final Pattern CLOCK = Pattern.compile("([+-]?)(\\d+):(\\d+)(?::(\\d+(?:\\.\\d+)?))?");

    private record Parts(int years, int months, int days, int hours, int minutes, BigDecimal seconds) {

        static final Parts NONE = new Parts(0, 0, 0, 0, 0, BigDecimal.ZERO);

        Parts plus(Parts more, int times) {
            return new Parts(
                    years + more.years * times,
                    months + more.months * times,
                    days + more.days * times,
                    hours + more.hours * times,
                    minutes + more.minutes * times,
                    seconds.add(more.seconds.multiply(BigDecimal.valueOf(times))).stripTrailingZeros());
        }
    }

    public PGInterval() {
        type = "interval";
    }

    public PGInterval(String text) throws SQLException {
        this();
        setValue(text);
    }

    public PGInterval(int years, int months, int days, int hours, int minutes, double seconds) {
        this();
        setValue(years, months, days, hours, minutes, seconds);
    }

    /** The text as Postgres wrote it, in whatever `IntervalStyle` but `sql_standard`. */
    @Override
    public void setValue(String text) throws SQLException {
        value = text;
    }

    public void setValue(int years, int months, int days, int hours, int minutes, double seconds) {
        write(new Parts(years, months, days, hours, minutes, BigDecimal.valueOf(seconds).stripTrailingZeros()));
    }

    @Override
    public String getValue() {
        return value;
    }

    public int getYears() {
        return parts().years;
    }

    public void setYears(int years) {
        setValue(years, getMonths(), getDays(), getHours(), getMinutes(), getSeconds());
    }

    public int getMonths() {
        return parts().months;
    }

    public void setMonths(int months) {
        setValue(getYears(), months, getDays(), getHours(), getMinutes(), getSeconds());
    }

    public int getDays() {
        return parts().days;
    }

    public void setDays(int days) {
        setValue(getYears(), getMonths(), days, getHours(), getMinutes(), getSeconds());
    }

    public int getHours() {
        return parts().hours;
    }

    public void setHours(int hours) {
        setValue(getYears(), getMonths(), getDays(), hours, getMinutes(), getSeconds());
    }

    public int getMinutes() {
        return parts().minutes;
    }

    public void setMinutes(int minutes) {
        setValue(getYears(), getMonths(), getDays(), getHours(), minutes, getSeconds());
    }

    public double getSeconds() {
        return parts().seconds.doubleValue();
    }

    public int getWholeSeconds() {
        return parts().seconds.intValue();
    }

    public int getMicroSeconds() {
        return parts().seconds.remainder(BigDecimal.ONE).movePointRight(6).intValue();
    }

    public void setSeconds(double seconds) {
        setValue(getYears(), getMonths(), getDays(), getHours(), getMinutes(), seconds);
    }

    public void add(Calendar calendar) {
        Parts parts = parts();
        calendar.add(Calendar.MILLISECOND, parts.seconds.movePointRight(3).setScale(0, RoundingMode.HALF_UP).intValue());
        calendar.add(Calendar.MINUTE, parts.minutes);
        calendar.add(Calendar.HOUR, parts.hours);
        calendar.add(Calendar.DAY_OF_MONTH, parts.days);
        calendar.add(Calendar.MONTH, parts.months);
        calendar.add(Calendar.YEAR, parts.years);
    }

    public void add(Date date) {
        Calendar calendar = Calendar.getInstance();
        calendar.setTime(date);
        add(calendar);
        date.setTime(calendar.getTimeInMillis());
    }

    public void add(PGInterval other) {
        other.write(other.parts().plus(parts(), 1));
    }

    public void scale(int factor) {
        write(Parts.NONE.plus(parts(), factor));
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof PGInterval)) {
            return false;
        }
        PGInterval interval = (PGInterval) other;
        return isFinite() && interval.isFinite()
                ? parts().equals(interval.parts())
                : Objects.equals(value, interval.value);
    }

    @Override
    public int hashCode() {
        return parts().hashCode();
    }

    @Override
    public Object clone() throws CloneNotSupportedException {
        return super.clone();
    }

    private boolean isFinite() {
        return !isNull() && !value.endsWith("infinity");
    }

    private void write(Parts parts) {
        value = parts.years + " years " + parts.months + " mons " + parts.days + " days " + parts.hours + " hours "
                + parts.minutes + " mins " + parts.seconds.toPlainString() + " secs";
    }

    private Parts parts() {
        if (!isFinite()) {
            return Parts.NONE;
        }
        Parts read = value.startsWith("P") ? ofIso(value) : ofWords(value);
        return value.endsWith("ago") ? Parts.NONE.plus(read, -1) : read;
    }

    /** `P1Y2M-3DT4H5M6.5S`: an M is months before the T, and minutes behind it. */
    private static Parts ofIso(String text) {
        String[] halves = (text.substring(1) + "T ").split("T");
        String date = halves[0].replace("Y", "year").replace("M", "mon").replace("W", "week").replace("D", "day");
        return ofWords(date + halves[1].replace("H", "hour").replace("M", "min").replace("S", "sec"));
    }

    private static Parts ofWords(String text) {
        Parts parts = Parts.NONE;
        for (Matcher field = FIELD.matcher(text); field.find();) {
            parts = parts.plus(ofField(new BigDecimal(field.group(1)), field.group(2)), 1);
        }
        Matcher clock = CLOCK.matcher(text);
        return clock.find() ? parts.plus(ofClock(clock), clock.group(1).equals("-") ? -1 : 1) : parts;
    }

    private static Parts ofField(BigDecimal number, String unit) {
        if (unit.startsWith("sec")) {
            return new Parts(0, 0, 0, 0, 0, number.stripTrailingZeros());
        }
        int whole = number.intValueExact();
        return new Parts(
                unit.startsWith("year") ? whole : 0,
                unit.startsWith("mon") ? whole : 0,
                unit.startsWith("day") ? whole : unit.startsWith("week") ? 7 * whole : 0,
                unit.startsWith("hour") ? whole : 0,
                unit.startsWith("min") ? whole : 0,
                BigDecimal.ZERO);
    }

    private static Parts ofClock(Matcher clock) {
        String seconds = clock.group(4) == null ? "0" : clock.group(4);
        int hours = Integer.parseInt(clock.group(2)), minutes = Integer.parseInt(clock.group(3));
        return new Parts(0, 0, 0, hours, minutes, new BigDecimal(seconds));
    }
}
