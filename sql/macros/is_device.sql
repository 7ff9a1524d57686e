-- is_device(value): whether a text names a device (npu:0, cuda, cpu:None), which is not a value of the computation.
CREATE OR REPLACE MACRO is_device(value) AS
regexp_full_match(coalesce(value, ''), '(cpu|cuda|npu|gpu|ascend)(:[0-9A-Za-z]+)?', 'i')
