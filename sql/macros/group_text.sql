-- group_text(members): the ranks of a group as a text. That of a large group has a hash in place of most ranks, because
--   every call of every rank has this text.
CREATE OR REPLACE MACRO group_text(members) AS
if(
    len(members) <= 32,
    CAST(members AS VARCHAR),
    format('[{}, {}, …, {}] of {} ranks, {:08x}', members[1], members[2], members[-1], len(members), hash(members) >> 32)
)
