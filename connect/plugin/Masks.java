package cdc.connect;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.connect.connector.ConnectRecord;

/**
 * What is sent instead of the values of some columns, by the texts that Postgres writes (`connect/masks.py`; a copy does
 * the same in `snapshots/masked_columns.py`).
 *
 * Configured by `exact.masks`, lines of a table, a column and its mask, with tabs between, and `exact.mask.secret`. Of a
 * table that has a line, only columns that are `plain` are sent as they are: one that was renamed or added is null, until
 * who wrote the lines knows it.
 */
public final class Masks<R extends ConnectRecord<R>> extends ListedPredicate<R> {

    private static final UnaryOperator<String> NOTHING = text -> null;
    private static final String PLAIN = "plain";
    private static final int SHOWN = 4;

    private final Map<String, Map<String, UnaryOperator<String>>> tables = new HashMap<>();

    static Masks<?> of(Properties settings) {
        Masks<?> masks = new Masks<>();
        String secret = settings.getProperty("mask.secret");
        for (String line : settings.getProperty("masks", "").split("\n")) {
            String[] parts = line.split("\t", -1);
            if (parts.length > 2) {
                masks.tables.computeIfAbsent(parts[0], table -> new HashMap<>()).put(parts[1], masks.mask(parts, secret));
            }
        }
        return masks;
    }

    /** The mask of a column, by their listed names; null if its values are sent as they are. */
    UnaryOperator<String> find(String table, String column) {
        Map<String, UnaryOperator<String>> columns = tables.get(table);
        if (columns == null) {
            return null;
        }
        return columns.containsKey(column) ? columns.get(column) : NOTHING;
    }

    /** Is it a mask that makes a null of everything? */
    static boolean isNothing(UnaryOperator<String> mask) {
        return mask == NOTHING;
    }

    private UnaryOperator<String> mask(String[] parts, String secret) {
        switch (parts[2]) {
            case PLAIN:
                return null;
            case "null":
            case "drop":
                return NOTHING;
            case "hash":
                return text -> hash(text, secret);
            case "last4":
                return Masks::lastFour;
            case "word":
                String word = unlisted(parts[3]);
                return text -> word;
            default:
                throw new IllegalArgumentException("exact.masks: " + parts[2] + " is no mask of these classes");
        }
    }

    private static String hash(String text, String secret) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            return HexFormat.of().formatHex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
        } catch (GeneralSecurityException unheardOf) {
            throw new IllegalStateException(unheardOf);
        }
    }

    private static String lastFour(String text) {
        int length = text.codePointCount(0, text.length());
        return length < 2 * SHOWN ? "****" : "****" + text.substring(text.offsetByCodePoints(0, length - SHOWN));
    }

    private static String unlisted(String word) {
        StringBuilder read = new StringBuilder();
        for (int at = 0; at < word.length(); at++) {
            if (word.charAt(at) == '%') {
                read.append((char) Integer.parseInt(word.substring(at + 1, at + 3), 16));
                at += 2;
            } else {
                read.append(word.charAt(at));
            }
        }
        return read.toString();
    }
}
