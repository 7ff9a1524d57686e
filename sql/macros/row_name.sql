-- row_name(op, slot): the name of a leaf; a saved value has no slot, and the name of its op.
-- grain: one name
CREATE OR REPLACE MACRO row_name(op, slot) AS if(slot = '', op, op || '.' || slot)
