-- The tables of the flights demo; the columns stand in the order of the data set's files.
-- No foreign keys: the data names planes and airports that have no row of their own.
CREATE TABLE airlines (
    carrier text PRIMARY KEY,
    name text NOT NULL
);
CREATE TABLE airports (
    faa text PRIMARY KEY,
    name text NOT NULL,
    lat double precision NOT NULL,
    lon double precision NOT NULL,
    alt integer NOT NULL,
    tz smallint NOT NULL,
    dst text NOT NULL,
    tzone text
);
CREATE TABLE planes (
    tailnum text PRIMARY KEY,
    year smallint,
    type text,
    manufacturer text,
    model text,
    engines smallint,
    seats smallint,
    speed smallint,
    engine text
);
CREATE TABLE flights (
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    dep_time smallint,
    sched_dep_time smallint NOT NULL,
    dep_delay smallint,
    arr_time smallint,
    sched_arr_time smallint NOT NULL,
    arr_delay smallint,
    carrier text,
    flight integer,
    tailnum text,
    origin text NOT NULL,
    dest text NOT NULL,
    air_time smallint,
    distance integer NOT NULL,
    hour smallint NOT NULL,
    minute smallint NOT NULL,
    time_hour timestamptz,
    PRIMARY KEY (time_hour, carrier, flight)
);
CREATE TABLE weather (
    origin text,
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    hour smallint NOT NULL,
    temp numeric(5, 2),
    dewp numeric(5, 2),
    humid numeric(5, 2),
    wind_dir smallint,
    wind_speed double precision,
    wind_gust double precision,
    precip numeric(4, 2),
    pressure numeric(6, 1),
    visib numeric(4, 2),
    time_hour timestamptz,
    PRIMARY KEY (origin, time_hour)
);
