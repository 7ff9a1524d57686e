-- copied_content: content that is marked as copied is in the lake, with all its bytes.
-- grain: one violation
SELECT
    contents.run,
    contents.step,
    contents.rank,
    contents.content,
    contents.length,
    octet_length("values".data) AS found
FROM contents
LEFT JOIN "values" USING (run, step, rank, content)
WHERE contents.file NOT LIKE '/%' AND octet_length("values".data) IS DISTINCT FROM contents.length
LIMIT 100
