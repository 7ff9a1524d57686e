-- api_keys(api_type, api, module_class): the names under which mappings and tables of APIs know an op: the first two
-- parts of its name, a primitive by its class whatever its attribute is called, a module by its class, a debug point by all
-- of its name.
CREATE OR REPLACE MACRO api_keys(api_type, api, module_class) AS
CASE
    WHEN module_class IS NOT NULL THEN [api_type || '.' || module_class]
    WHEN api_type = 'Primitive'
        THEN [api_type || '.' || split_part(api, '.', 1), api_type || '.*.' || split_part(api, '.', -1)]
    WHEN api_type = 'debug' THEN [api_type || '.' || api]
    ELSE [api_type || '.' || split_part(api, '.', 1)]
END
