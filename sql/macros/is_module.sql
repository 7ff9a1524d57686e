-- is_module(op): whether the op of this name is a module (a cell in MindSpore), in which other ops are called.
CREATE OR REPLACE MACRO is_module(op) AS
starts_with(op, 'Module.') OR starts_with(op, 'Cell.')
