-- leaf_axes: what the members of each leaf have along one axis of the mesh, where the table of this name lacks the leaf.
-- grain: one leaf
-- parameters: $axis, counted from 1; after members; the tables axis_lines (axis, rank, line, place) and leaf_axes
-- axis_lines: ranks on a line differ along this axis only; place is a rank's coordinate, NULL along the micro-batches
-- equal, ragged: members of every line have the same value, of some line other extents; present: how many a line has
-- first_place, last_place: the coordinates of the first and the last member
WITH
    members AS (
        SELECT
            members.leaf,
            members.sig,
            if(members.shape IS NULL, NULL, hash(members.shape)) AS extents,
            axis_lines.line,
            if(axis_lines.place IS NULL, 0, members.micro) AS micro,
            coalesce(axis_lines.place, members.micro) AS place
        FROM cut_members AS members
        JOIN axis_lines
            USING (rank)
        ANTI JOIN leaf_axes
            ON leaf_axes.leaf = members.leaf AND leaf_axes.axis = $axis
        WHERE axis_lines.axis = $axis
    ),
    lines AS (
        SELECT
            leaf,
            min(sig) = max(sig) AS equal,
            coalesce(min(extents) <> max(extents), false) AS ragged,
            count(DISTINCT place) AS present,
            min(place) AS first_place,
            max(place) AS last_place
        FROM members
        GROUP BY leaf, line, micro
    )
SELECT
    leaf,
    CAST($axis AS INTEGER) AS axis,
    bool_and(equal) AS equal,
    bool_or(ragged) AS ragged,
    CAST(max(present) AS INTEGER) AS present,
    min(first_place) AS first_place,
    max(last_place) AS last_place
FROM lines
GROUP BY leaf
