-- module_of(op): the name of a module's op without direction and call number.
CREATE OR REPLACE MACRO module_of(op) AS
regexp_replace(op, '\.(forward|backward|parameters_grad)(\.\d+)?$', '')
