-- api_keys(api_type, api, module_class): the names under which mappings and tables of APIs list an op: the first two
--   parts of its name; for a primitive its class, whatever its attribute is called; for a module its class; for a debug
--   point its full name.
CREATE OR REPLACE MACRO api_keys(api_type, api, module_class) AS
CASE
    WHEN module_class IS NOT NULL THEN [api_type || '.' || module_class]
    WHEN api_type = 'Primitive'
        THEN [api_type || '.' || split_part(api, '.', 1), api_type || '.*.' || split_part(api, '.', -1)]
    WHEN api_type = 'debug' THEN [api_type || '.' || api]
    ELSE [api_type || '.' || split_part(api, '.', 1)]
END
