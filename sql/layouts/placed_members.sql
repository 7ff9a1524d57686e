-- placed_members: the members with their coordinates along all axes, and how many elements they have.
-- grain: one leaf of one rank
-- parameters: after members; the table cut_ranks (rank, piece, coordinates)
-- places: the coordinates of the rank, and at last the micro-batch
SELECT
    members.*,
    list_append(cut_ranks.coordinates, CAST(members.micro AS INTEGER)) AS places,
    coalesce(list_product(list_transform(members.shape, lambda extent: CAST(extent AS DOUBLE))), 1) AS elements
FROM cut_members AS members
JOIN cut_ranks
    USING (rank)
