-- is_product(api): whether an API is one matrix product, which sums over the last dimension of its first factor.
CREATE OR REPLACE MACRO is_product(api) AS
regexp_matches(api, '(?i)^(linear|dense|__r?matmul__|matmul|addmm|baddbmm|bmm|mm|mv|dot|batchmatmul)$')
