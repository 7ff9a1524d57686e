-- message_of(finding): the message of a verdict that other statements ask for, too.
CREATE OR REPLACE MACRO message_of(finding) AS
CASE finding
    WHEN 'trained apart' THEN 'error: requires_grad differs'
    WHEN 'late digest' THEN 'skipped: the digest is that of later contents'
    WHEN 'other zeros' THEN 'skipped: zeros of another sign, or the digest is that of later contents'
END
