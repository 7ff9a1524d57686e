-- tensor_metrics(target, golden): stands in for the function of that name where no tensor contents are at hand.
CREATE OR REPLACE MACRO tensor_metrics(target, golden) AS
NULL::STRUCT(
    status VARCHAR,
    cosine DOUBLE,
    euclidean_distance DOUBLE,
    max_abs_error DOUBLE,
    max_relative_error DOUBLE,
    one_thousandth_ratio DOUBLE,
    five_thousandths_ratio DOUBLE,
    "equal" BOOLEAN,
    golden_norm DOUBLE,
    golden_max_abs DOUBLE,
    detail VARCHAR
)
