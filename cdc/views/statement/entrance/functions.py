"""What is known of each function: every class of sqlglot's, and every name of Spark's that has none, is in one set.

- pure: its value depends on its arguments alone, or, of an aggregate, on which rows there are. Which rows tie, and the
  order of a list, are asked besides (`ties.py`, `list_order.py`).
- refused: two computations give two values.
- opaque: nobody has looked, or the analysis does not follow it. A view with it is computed as a whole. A function that
  is on no list counts so, too.

tests/unit/views/statement/test_admission.py holds the sets against sqlglot, tests/spark/test_random_statements.py
against Spark.
"""

from typing import Final

from sqlglot import exp

from cdc.views.statement.entrance.kinds import Kind, classes, kind_of

_BY_CHANCE: Final = "it gives another value at every evaluation"
BY_TIME: Final = "it depends on when the view is computed"
_BY_PLACE: Final = "it depends on where and how the rows are read"
BY_ORDER: Final = "it depends on the order of the rows, and they have none"
_BY_SESSION: Final = "it depends on the session"
_OUTSIDE: Final = "it calls what is outside of SQL"


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


REFUSED: Final[dict[Kind, str]] = {
    **dict.fromkeys(
        classes("""
    AIAgg AIClassify AIEmbed AIForecast AIGenerate AISimilarity AISummarizeAgg Encrypt EncryptRaw GenerateBool
    GenerateDouble GenerateEmbedding GenerateInt GenerateTable GenerateText Generator MLForecast MLTranslate Normal
    Predict Rand Randn Randstr Shuffle Uniform Uuid Zipf
"""),
        _BY_CHANCE,
    ),
    **dict.fromkeys(
        classes("""
    CurrentDate CurrentDatetime CurrentTime CurrentTimestamp CurrentTimestampLTZ Localtime Localtimestamp
    Systimestamp UtcDate UtcTime UtcTimestamp
"""),
        BY_TIME,
    ),
    **dict.fromkeys(
        classes("""
    DynamicIdentifier Host NetFunc NextValueFor OpenJSON ReadCSV ReadParquet Secret Seq1 Seq2 Seq4 Seq8 ToFile
"""),
        _BY_PLACE,
    ),
    **dict.fromkeys(
        classes("""
    CurrentAccount CurrentAccountName CurrentAvailableRoles CurrentCatalog CurrentClient CurrentDatabase
    CurrentIpAddress CurrentOrganizationName CurrentOrganizationUser CurrentRegion CurrentRole CurrentRoleType
    CurrentSchema CurrentSchemas CurrentSecondaryRoles CurrentSession CurrentStatement CurrentTimezone
    CurrentTransaction CurrentUser CurrentUserId CurrentVersion CurrentWarehouse SessionUser
"""),
        _BY_SESSION,
    ),
    **dict.fromkeys(
        classes("""
    AnyValue ApproxPercentileAccumulate ApproxPercentileCombine ApproxPercentileEstimate ApproxQuantile
    ApproxQuantiles ApproxTopK ApproxTopKAccumulate ApproxTopKCombine ApproxTopKEstimate ApproxTopSum ArrayConcatAgg
    ArrayFirst ArrayLast ArrayUnionAgg First HashAgg JSONArrayAgg JSONBObjectAgg JSONObjectAgg Last Minhash
    MinhashCombine Mode ObjectAgg
"""),
        BY_ORDER,
    ),
    **dict.fromkeys(
        _names("""
    aes_encrypt
"""),
        _BY_CHANCE,
    ),
    **dict.fromkeys(
        _names("""
    now
"""),
        BY_TIME,
    ),
    **dict.fromkeys(
        _names("""
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id python_worker_logs
    range spark_partition_id
"""),
        _BY_PLACE,
    ),
    **dict.fromkeys(
        _names("""
    collations current_path sql_keywords user version
"""),
        _BY_SESSION,
    ),
    **dict.fromkeys(
        _names("""
    java_method reflect table_changes table_changes_by_path try_reflect
"""),
        _OUTSIDE,
    ),
    **dict.fromkeys(
        _names("""
    histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
    kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    theta_intersection_agg theta_sketch_agg theta_union_agg tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer
"""),
        BY_ORDER,
    ),
}
"""Why each is refused."""
PURE_CLASSES: Final = classes("""
    Abs Acos Acosh AddMonths And ApproxDistinct ArgMax ArgMin Array ArrayAgg ArrayAppend ArrayCompact ArrayContains
    ArrayDistinct ArrayExcept ArrayFilter ArrayInsert ArrayIntersect ArrayMax ArrayMin ArrayPosition ArrayPrepend
    ArrayRemove ArraySize ArraySlice ArraySort ArrayToString ArrayUniqueAgg ArraysZip Ascii Asin Asinh Atan Atan2
    Atanh Avg BitLength BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount BitmapOrAgg
    BitwiseAndAgg BitwiseCount BitwiseOrAgg BitwiseXorAgg Case Cast CastToStrType Cbrt Ceil Chr Coalesce Collate
    Collation Concat ConcatWs Contains ConvertTimezone Corr Cos Cosh Cot Count CountIf CovarPop CovarSamp Csc
    CumeDist DateDiff DateFromUnixDate DateTrunc Day DayOfMonth DayOfWeek DayOfYear Dayname Decode DecodeCase
    Degrees DenseRank Elt Encode EndsWith EqualNull Exists Exp Explode Extract Factorial FirstValue Flatten Floor
    Format FromBase64 FromJson Getbit Greatest GroupConcat Grouping GroupingId Hex Hour If Initcap Inline IsNan
    JSONExtractScalar JSONFormat JSONKeys Kurtosis Lag LastDay LastValue Lead Least Left Length Levenshtein Ln Log
    LogicalAnd LogicalOr Lower MD5 MakeInterval Map MapContainsKey MapFromEntries MapKeys Max Median Min Minute
    Month Monthname MonthsBetween Nanvl Negative NextDay NthValue Ntile Nullif Nvl2 Or Overlay Pad ParseJSON
    ParseUrl PercentRank PercentileCont PercentileDisc Pi Posexplode PosexplodeOuter Pow Quantile Quarter Radians
    Rank Reduce RegexpCount RegexpExtract RegexpExtractAll RegexpInstr RegexpLike RegexpReplace RegexpSplit
    RegexpSubstr RegrAvgx RegrAvgy RegrCount RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy Repeat Replace
    Reverse Right Rint Round RowNumber SHA SHA2 SafeAdd SafeDivide SafeMultiply SafeSubtract Sec Second Sign Sin
    Sinh Skewness Soundex Space Split SplitPart Sqrt Stack StartsWith Stddev StddevPop StddevSamp StrPosition
    StrToDate StrToMap StrToTime StrToUnix Struct Substring SubstringIndex Sum Tan Tanh Time TimeDiff TimeStrToTime
    TimeToStr TimeTrunc TimestampAdd TimestampFromParts TimestampTrunc ToBase64 ToBinary ToChar ToNumber Transform
    Translate Trim TryCast TsOrDsAdd TsOrDsToDate Typeof Unhex UnixDate UnixMicros UnixMillis UnixSeconds UnixToStr
    Upper VarMap Variance VariancePop WeekOfYear WidthBucket Xor Year _ExplodeOuter
""")
OPAQUE_CLASSES: Final = classes("""
    Agg AggFunc Anonymous AnonymousAggFunc Apply ApproximateSimilarity ArrayAll ArrayAny ArrayConcat
    ArrayConstructCompact ArrayContainedBy ArrayContainsAll ArrayOverlaps ArrayRemoveAt ArrayReverse ArraySum
    Base64DecodeBinary Base64DecodeString Base64Encode Booland Boolnot Boolor BoolxorAgg ByteLength CheckJson
    CheckXml CityHash64 CodePointsToBytes CodePointsToString Columns CombinedAggFunc CombinedParameterizedAgg
    Compress ConnectByRoot Convert ConvertToCharset CosineDistance Coth Csch Date DateAdd DateBin DateFromParts
    DateStrToDate DateSub DateToDateStr DateToDi Datetime DatetimeAdd DatetimeDiff DatetimeSub DatetimeTrunc
    DayOfWeekIso DecompressBinary DecompressString Decrypt DecryptRaw DiToDate DotProduct EuclideanDistance
    ExplodingGenerateSeries FarmFingerprint FeaturesAtTime Float64 FromBase FromBase32 FromISO8601Date
    FromISO8601Timestamp FromISO8601TimestampNanos GapFill GenerateDateArray GenerateSeries GenerateTimestampArray
    GetExtract GetIgnoreCase HexDecodeString Hll Int64 IsArray IsAscii IsInf IsNullValue JSONArray JSONArrayAppend
    JSONArrayContains JSONArrayInsert JSONBContains JSONBContainsAllTopKeys JSONBContainsAnyTopKeys
    JSONBContainsTopKey JSONBDeleteAtPath JSONBExists JSONBExtract JSONBExtractScalar JSONBPathExists JSONBool
    JSONCast JSONExists JSONExtract JSONExtractArray JSONKeysAtDepth JSONObject JSONRemove JSONSet JSONStripNulls
    JSONTable JSONType JSONValueArray JarowinklerSimilarity JustifyDays JustifyHours JustifyInterval LaxBool
    LaxFloat64 LaxInt64 LaxString List LowerHex MD5Digest MD5NumberLower64 MD5NumberUpper64 ManhattanDistance MapCat
    MapDelete MapInsert MapPick MapSize MatchAgainst Normalize NumberToStr ObjectId ObjectInsert ObjectTransform
    ParameterizedAgg ParseBignumeric ParseDatetime ParseIp ParseNumeric ParseTime PreviousDay RangeBucket RangeN
    RegDomain RegexpFullMatch RegexpILike RegrValx RegrValy RtrimmedLength SHA1Digest SHA2Digest
    SafeConvertBytesToString SafeFunc SafeNegate Search SearchIp Sech SoundexP123 SplitToTable StDistance StPoint
    StandardHash StarMap String StringToArray StripNullValue Strtok StrtokSplitToTable StrtokToArray StructExtract
    Stuff TimeAdd TimeFromParts TimeSlice TimeStrToDate TimeStrToUnix TimeSub TimeToTimeStr TimeToUnix Timestamp
    TimestampDiff TimestampLtzFromParts TimestampSub TimestampTzFromParts ToArray ToBase32 ToBoolean ToCodePoints
    ToDays ToDecfloat ToDouble ToMap ToVariant Trunc Try TryBase64DecodeBinary TryBase64DecodeString
    TryHexDecodeBinary TryHexDecodeString TryToDecfloat TsOrDiToDi TsOrDsDiff TsOrDsToDateStr TsOrDsToDatetime
    TsOrDsToTime TsOrDsToTimestamp Unicode UnixToTime UnixToTimeStr Unnest VectorSearch Week WeekStart WeightString
    XMLElement XMLGet XMLTable YearOfWeek YearOfWeekIso
""")
PURE_NAMES: Final = _names("""
    aes_decrypt array_repeat array_union arrays_overlap assert_true bigint bin binary bround btrim cardinality conv
    crc32 date_part datepart decimal e expm1 find_in_set forall format_number from_csv from_xml get hash hypot
    is_valid_utf8 isnotnull isnull json_array_length later log1p luhn_check make_date make_dt_interval make_time
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map_concat map_entries map_filter
    map_values map_zip_with mask nullifzero octet_length pmod positive printf quote raise_error regexp schema_of_csv
    schema_of_json schema_of_xml sentences session_window shiftrightunsigned smallint time_bucket time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_csv to_time to_timestamp_ltz to_timestamp_ntz to_varchar to_xml
    transform_keys transform_values try_aes_decrypt try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_parse_url try_to_binary try_to_date try_to_number try_to_time
    try_to_timestamp try_url_decode try_validate_utf8 url_decode url_encode validate_utf8 weekday window
    window_start xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
    xpath_string xxhash64 zeroifnull zip_with
""")
"""Functions of one row that sqlglot has no class for; `window_start` and `later` are `time_windows.py`'s."""
AGGREGATE_NAMES: Final = _names("""
    bitmap_and_agg count_min_sketch every mean some std try_avg try_sum
""")
"""Pure aggregates that sqlglot has no class for."""
OPAQUE_NAMES: Final = _names("""
    from_avro from_protobuf hll_sketch_estimate hll_union inline_outer is_valid_variant is_variant_null json_tuple
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    measure schema_of_avro schema_of_variant schema_of_variant_agg st_asbinary st_geogfromwkb st_geomfromwkb
    st_setsrid st_srid theta_difference theta_intersection theta_sketch_estimate theta_union to_avro to_protobuf
    to_variant_object try_parse_json try_variant_get tuple_difference_double tuple_difference_integer
    tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
    tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
    tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
    tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double
    tuple_union_integer tuple_union_theta_double tuple_union_theta_integer variant_explode variant_explode_outer
    variant_get vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
    vector_normalize vector_sum window_time
""")


def is_pure(node: exp.Expr) -> bool:
    """Whether an analysis may go on through a function."""
    kind = kind_of(node)
    return kind in PURE_NAMES or kind in AGGREGATE_NAMES if isinstance(kind, str) else kind in PURE_CLASSES


def is_aggregate(node: exp.Expr) -> bool:
    """Whether an expression is of several rows; `any(x)` is one that sqlglot takes for a predicate."""
    return isinstance(node, exp.AggFunc | exp.Any) or (
        isinstance(node, exp.Anonymous) and kind_of(node) not in PURE_NAMES
    )
