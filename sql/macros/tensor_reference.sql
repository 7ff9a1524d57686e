-- tensor_reference(folder, entry): the reference by which tensor_metrics reads a tensor; `entry` is a row of contents,
--   `folder` that of its unit.
CREATE OR REPLACE MACRO tensor_reference(folder, entry) AS
{
    'file': if(entry.file LIKE '/%', entry.file, folder || '/' || entry.file),
    'offset': entry."offset",
    'length': entry.length,
    'dtype': entry.dtype,
    'shape': entry.shape,
    'strides': entry.strides
}
