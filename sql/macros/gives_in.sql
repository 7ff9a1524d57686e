-- gives_in(kind, rank, peer): whether a rank gives something to a transfer. peer: the root of a collective that has one.
CREATE OR REPLACE MACRO gives_in(kind, rank, peer) AS
kind NOT IN ('recv', 'barrier') AND (kind NOT IN ('broadcast', 'scatter') OR coalesce(rank = peer, false))
