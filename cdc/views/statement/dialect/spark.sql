-- What functions and operators of Spark mean, where DuckDB has none that mean the same.
--
-- The types of arguments and results are Python's business (`arithmetic.py` and its like): a macro has none.
-- A macro's body is copied to where it is called, and its arguments into it. So each argument stands in a body once:
-- `list_transform([x], lambda v: …)[1]` gives it a name. Otherwise a call in a call in a call would grow exponentially.
-- The failing cast is an error where Spark has one, or is to be asked. `error()` counts as volatile, and DuckDB then
-- matches no GROUP BY with its column.

-- Division. Of zero by zero, too, Spark has an error; of NULL by zero it has NULL.
CREATE MACRO spark_divide(x, y) AS list_transform([{'x': x, 'y': y}], lambda v:
    CASE WHEN v.y = 0 AND v.x IS NOT NULL THEN CAST('division by zero' AS DOUBLE) ELSE v.x / v.y END)[1];
CREATE MACRO spark_div(x, y) AS list_transform([{'x': CAST(x AS BIGINT), 'y': CAST(y AS BIGINT)}], lambda v:
    CASE WHEN v.y = 0 AND v.x IS NOT NULL THEN CAST('division by zero' AS BIGINT) ELSE v.x // v.y END)[1];
CREATE MACRO spark_remainder(x, y) AS list_transform([{'x': x, 'y': y}], lambda v:
    CASE WHEN v.y = 0 AND v.x IS NOT NULL THEN CAST('division by zero' AS TINYINT) ELSE v.x % v.y END)[1];
CREATE MACRO spark_pmod(x, y) AS list_transform([{'x': x, 'y': y}], lambda v:
    CASE WHEN v.y = 0 AND v.x IS NOT NULL THEN CAST('division by zero' AS TINYINT)
         WHEN v.x % v.y < 0 THEN (v.x % v.y + v.y) % v.y ELSE v.x % v.y END)[1];

-- The quotient of two HUGEINTs, rounded half away from zero.
CREATE MACRO spark_quotient(x, y) AS list_transform([{'x': x, 'y': y}], lambda v:
    CASE WHEN v.y = 0 AND v.x IS NOT NULL THEN CAST('division by zero' AS HUGEINT)
         WHEN (v.x < 0) = (v.y < 0) THEN (2 * abs(v.x) + abs(v.y)) // (2 * abs(v.y))
         ELSE -((2 * abs(v.x) + abs(v.y)) // (2 * abs(v.y))) END)[1];

-- Averages: of the digits of decimals, and of integers, whose sums Spark keeps as doubles; `size` is the sum of their
-- absolute values, which are whole as doubles up to 2^53: so far the order of addition does not matter.
CREATE MACRO spark_average_of_digits(total, rows) AS list_transform([{'total': total, 'rows': rows}], lambda v:
    CASE WHEN v.rows = 0 THEN NULL ELSE spark_quotient(v.total, v.rows) END)[1];
CREATE MACRO spark_average(total, rows, size) AS list_transform([{'total': total, 'rows': rows, 'size': size}], lambda v:
    CASE WHEN v.size > 9007199254740992 THEN CAST('a sum of integers beyond exact doubles' AS DOUBLE)
         ELSE CAST(v.total AS DOUBLE) / nullif(v.rows, 0) END)[1];

-- Of other letters than ASCII's (ß, İ, Σ) the engines make different ones.
CREATE MACRO ascii_only(x) AS list_transform([x], lambda v:
    CASE WHEN strlen(v) > length(v) THEN CAST(CAST('not ASCII' AS INTEGER) AS VARCHAR) ELSE v END)[1];
CREATE MACRO spark_upper(x) AS upper(ascii_only(x));
CREATE MACRO spark_lower(x) AS lower(ascii_only(x));

CREATE MACRO spark_instr(x, part) AS CAST(instr(x, part) AS INTEGER);
CREATE MACRO spark_size(x) AS CAST(len(x) AS INTEGER);
CREATE MACRO spark_isnan(x) AS coalesce(isnan(x), FALSE);
CREATE MACRO spark_sign(x) AS CAST(sign(x) AS DOUBLE);

-- `substring(x, -back, size)`: a part that begins before the text is shorter by what lies there.
CREATE MACRO spark_substring_from_end(x, back, size) AS list_transform([x], lambda v:
    substring(v, greatest(length(v) - back, 0) + 1,
              greatest(length(v) - back + size - greatest(length(v) - back, 0), 0)))[1];

-- A text is read in one form only; others are Spark's.
CREATE MACRO text_of_form(x, form) AS list_transform([x], lambda v:
    CASE WHEN NOT regexp_full_match(v, form) THEN CAST(CAST('a text of another form' AS INTEGER) AS VARCHAR) ELSE v END)[1];

-- Before year 1 and after 9999 the engines write a year differently.
CREATE MACRO spark_time_to_text(x) AS list_transform([x], lambda v:
    CASE WHEN v < DATE '0001-01-01' OR v >= DATE '10000-01-01'
         THEN CAST(CAST('a year of other than four digits' AS INTEGER) AS VARCHAR) ELSE CAST(v AS VARCHAR) END)[1];

-- `array_contains(x, y)`: unknown where it is not found, but a null is.
CREATE MACRO spark_array_contains(x, y) AS list_transform([{'x': x, 'y': y}], lambda v:
    CASE WHEN v.x IS NULL OR v.y IS NULL THEN NULL
         WHEN list_contains(v.x, v.y) THEN TRUE
         WHEN len(v.x) > list_count(v.x) THEN NULL ELSE FALSE END)[1];

-- `window(at, …).start`, in microseconds: the start of the window that has a moment. A remainder has the dividend's sign.
CREATE MACRO spark_window_start(moment, slide, first) AS list_transform([epoch_us(moment)], lambda v:
    v - ((v - first) % slide + slide) % slide)[1];

-- Parts of dates and timestamps. Sunday is 1 in Spark and 0 in DuckDB, for `weekday` Monday is 0 and 1.
CREATE MACRO spark_date(x) AS CAST(x AS DATE);
CREATE MACRO spark_year(x) AS CAST(year(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_quarter(x) AS CAST(quarter(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_month(x) AS CAST(month(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_day(x) AS CAST(day(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_dayofyear(x) AS CAST(dayofyear(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_week(x) AS CAST(week(CAST(x AS DATE)) AS INTEGER);
CREATE MACRO spark_dayofweek(x) AS CAST(dayofweek(CAST(x AS DATE)) + 1 AS INTEGER);
CREATE MACRO spark_weekday(x) AS CAST(isodow(CAST(x AS DATE)) - 1 AS INTEGER);
CREATE MACRO spark_hour(x) AS CAST(hour(x) AS INTEGER);
CREATE MACRO spark_minute(x) AS CAST(minute(x) AS INTEGER);
CREATE MACRO spark_second(x) AS CAST(second(x) AS INTEGER);
CREATE MACRO spark_date_add(x, days) AS CAST(CAST(x AS DATE) + CAST(days AS INTEGER) AS DATE);
CREATE MACRO spark_datediff(x, y) AS CAST(CAST(x AS DATE) - CAST(y AS DATE) AS INTEGER);
CREATE MACRO spark_add_months(x, months) AS CAST(CAST(x AS DATE) + to_months(CAST(months AS INTEGER)) AS DATE);
CREATE MACRO spark_last_day(x) AS last_day(CAST(x AS DATE));
