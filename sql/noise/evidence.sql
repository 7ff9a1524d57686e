-- evidence: what rounding cannot produce.
-- grain: one op and one kind of evidence, or more than one leaf that shows it
-- parameters: the tables noise_arguments, noise_missing, noise_wiring, noise_sources, noise_given_gradients, noise_made,
--   noise_zeros, noise_stopped and noise_nonfinite, and noise_repeated: a repeat of golden explains a gradient
-- evidence: argument, missing, wiring, source, apart, made, zeros, stopped or nonfinite (docs/noise.md)
-- row: the leaf that shows it; NULL where an op is missing, or its values tell
SELECT number, 'argument' AS evidence, row FROM noise_arguments
UNION ALL
SELECT number, 'missing', NULL FROM noise_missing
UNION ALL
SELECT number, 'wiring', row FROM noise_wiring
UNION ALL
SELECT number, if(is_apart, 'apart', 'source'), row FROM noise_sources
UNION ALL
SELECT number, 'source', row FROM noise_given_gradients WHERE row NOT IN (SELECT row FROM noise_repeated)
UNION ALL
SELECT number, 'made', NULL FROM noise_made
UNION ALL
SELECT number, 'zeros', row FROM noise_zeros
UNION ALL
SELECT number, 'stopped', row FROM noise_stopped
UNION ALL
SELECT number, 'nonfinite', row FROM noise_nonfinite
