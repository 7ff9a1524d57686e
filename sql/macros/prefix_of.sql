-- prefix_of(api_type): the first part of a PyTorch name for the first part of a MindSpore name; NULL where it stays.
CREATE OR REPLACE MACRO prefix_of(api_type) AS
CASE api_type
    WHEN 'Cell' THEN 'Module'
    WHEN 'Mint' THEN 'Torch'
    WHEN 'MintFunctional' THEN 'Functional'
    WHEN 'MintDistributed' THEN 'Distributed'
END
