-- prefix_of(api_type): the first part of a PyTorch name for that of a MindSpore name; NULL if they are the same.
CREATE OR REPLACE MACRO prefix_of(api_type) AS
CASE api_type
    WHEN 'Cell' THEN 'Module'
    WHEN 'Mint' THEN 'Torch'
    WHEN 'MintFunctional' THEN 'Functional'
    WHEN 'MintDistributed' THEN 'Distributed'
END
