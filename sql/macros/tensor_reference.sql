-- tensor_reference(folder, entry): what tensor_metrics reads a tensor by; `entry` is a row of contents, `folder` its unit's.
CREATE OR REPLACE MACRO tensor_reference(folder, entry) AS
{
    'file': if(entry.file LIKE '/%', entry.file, folder || '/' || entry.file),
    'offset': entry."offset",
    'length': entry.length,
    'dtype': entry.dtype,
    'shape': entry.shape,
    'strides': entry.strides
}
