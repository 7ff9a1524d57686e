-- has_kink(api): whether the slope of an API's function jumps somewhere, as that of ReLU at 0: noise that moves an element
-- over the kink makes its gradient appear or vanish as a whole. So do places at which an image is read, between its pixels.
CREATE OR REPLACE MACRO has_kink(api) AS
regexp_matches(api, '(?i)relu|max_?pool|clamp|hard|\babs\b|threshold|maximum|minimum|grid_?sample|deform')
