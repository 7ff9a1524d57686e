-- takes_in(kind, rank, peer): whether a rank takes something out of a transfer. peer: the root of a collective that has one.
CREATE OR REPLACE MACRO takes_in(kind, rank, peer) AS
kind NOT IN ('send', 'barrier') AND (kind NOT IN ('reduce', 'gather') OR coalesce(rank = peer, false))
