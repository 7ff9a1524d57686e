"""Bounds of what is read: bytes, depth and numbers. A dump may come from anywhere, and must not fill the memory.

Real dumps stay far below. What goes beyond a bound is refused with a message that names it. The table in
docs/reliability_input.md says what each keeps in check.
"""

from __future__ import annotations

MIB = 1 << 20

# ---- folders ----------------------------------------------------------------------------------------------

DEEPEST_FOLDER = 16
"""Levels of folders below the path that is given, in which dumps are looked for."""

MOST_FOLDERS = 200_000
"""Folders that are looked into."""

MOST_LINKS = 10_000
"""Links to folders that are followed."""

# ---- lakes ------------------------------------------------------------------------------------------------

LARGEST_RECORD = 512 * MIB
"""Bytes of a record of a lake, such as a file of its log. One that names 100 000 units has 30 million."""

LARGEST_NUMBER = (1 << 31) - 1
"""A step or a rank, which are INTEGER columns."""

# ---- JSON -------------------------------------------------------------------------------------------------

LARGEST_ENTRY = 64 * MIB
"""Bytes of one op's entry in dump.json or debug.json; real ones take kilobytes. Decoded it may take 25 times that."""

LARGEST_MEMBER = 256 * MIB
"""Bytes of any other member; a grouped stack.json names all ops of a stack in one."""

DEEPEST_VALUE = 400
"""Levels of nesting in an entry."""

LONGEST_OP = 1 << 14
"""Characters of an op's name."""

MOST_LEAVES = 100_000
"""Leaves of one op. An optimizer's _foreach ops have a few thousand."""

MOST_PLACES = 300_000
"""Distinct places (section, indexes and keys) that leaves of a dump sit at."""

# ---- tensors ----------------------------------------------------------------------------------------------

LARGEST_PICKLE = 1 << 16
"""Bytes of the pickle in a .pt; a tensor's has about 200."""

LARGEST_ZIP_DIRECTORY = MIB
"""Bytes of the directory of a .pt or a workbook, which are zips; torch.save writes about 600."""

LARGEST_NPY_HEADER = 10_000
"""Bytes of a .npy header, as numpy itself allows for files that it does not trust."""

LARGEST_REPEATED = 256 * MIB
"""Bytes that a tensor may stand for whose elements share bytes (strides of 0), as an expanded one's do."""

MOST_AXES = 64
"""Axes of a tensor, as in numpy."""

# ---- checkpoints ------------------------------------------------------------------------------------------

LARGEST_CHECKPOINT_PICKLE = 64 * MIB
"""Bytes of the pickle of a checkpoint, which names its parameters; one of 10 000 has about 2 million."""

LARGEST_CHECKPOINT_DIRECTORY = 64 * MIB
"""Bytes of the directory of a checkpoint that is a zip: about 100 for each parameter."""

LARGEST_CHECKPOINT_HEADER = 64 * MIB
"""Bytes of the header of a safetensors file, or of an index of shards: about 100 for each parameter."""

MOST_PARAMETERS = 1_000_000
"""Tensors, numbers and texts in a checkpoint, and containers around them."""

DEEPEST_PARAMETER = 64
"""Levels of nesting in a checkpoint."""

LONGEST_NAMES = 256 * MIB
"""Characters of all names of a checkpoint together."""

# ---- graphs -----------------------------------------------------------------------------------------------

LONGEST_IR_LINE = MIB
"""Bytes of a line of MindSpore's IR that are looked at at once; constants make lines long."""

MOST_IR_NODES = 1_000_000
"""Nodes of the graphs in an IR file."""

# ---- workbooks and csv ------------------------------------------------------------------------------------

LONGEST_ROW = 64_000_000
"""Characters of a row of csv. Call stacks make rows long."""

LARGEST_PART = 256 * MIB
"""Bytes of a part of a workbook that is not a sheet; shared texts and styles are held in memory."""

LONGEST_CELL = MIB
"""Bytes between two tags of a workbook. Excel allows 32 767 characters."""

ALWAYS_UNPACKED = 64 * MIB
"""Bytes that a workbook may unpack to, whatever it was packed to."""

MOST_UNPACKED = 100
"""Bytes that a larger workbook may unpack to for each byte that it has."""

DEEPEST_ELEMENT = 64
"""Levels of nesting in the XML of a workbook."""

MOST_CELLS = 100_000
"""Elements in a row, or in a shared text. Excel allows 16 384 cells."""

MOST_ELEMENTS = 1_000_000
"""Elements of a part of a workbook that are in no row and no shared text."""

MOST_TEXTS = 2_000_000
"""Rows or shared texts of a part of a workbook. Excel allows 1 048 576 rows."""

LAST_ROW = 1 << 20
"""The number of the last row of a sheet, as in Excel. Up to there, rows that a workbook leaves out are empty ones."""

# ---- configurations ---------------------------------------------------------------------------------------

LARGEST_CONFIGURATION = 16_000_000
"""Bytes of a configuration of a collector or a monitor. One that lists 100 000 modules has about 8 million."""

# ---- rules and mappings -----------------------------------------------------------------------------------

LONGEST_RULE = MIB
"""Bytes of a rule; its text is kept with every comparison."""

DEEPEST_BRACKETS = 500
"""Round brackets that a rule may have open at once: DuckDB's parser overflows its stack at some thousand subqueries."""

LARGEST_MAPPING = 16_000_000
"""Bytes of a mapping file. One of 100 000 rows has about 12 million."""

MOST_NAMES = 1_000_000
"""Names, lists and ends of lists in a mapping file. One of 100 000 rows has 200 000."""

DEEPEST_MAPPING = 20
"""Levels of nesting in a mapping file. Those of msprobe have three."""
