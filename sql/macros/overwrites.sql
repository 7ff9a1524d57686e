-- overwrites(api): whether an API writes into the tensor that it takes first, whatever was there: that may be memory that
-- nothing has been written to yet (`torch.empty`), which holds something else in every run.
CREATE OR REPLACE MACRO overwrites(api) AS
regexp_matches(
    api,
    '(?i)^(__setitem__|index_put_|index_copy_|scatter_|copy_|fill_|zero_|normal_|uniform_|random_|bernoulli_|exponential_|geometric_|log_normal_|cauchy_)$'
)
