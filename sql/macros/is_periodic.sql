-- is_periodic(api): whether an API is a sine, a cosine or a tangent, of which large numbers keep few digits.
CREATE OR REPLACE MACRO is_periodic(api) AS
api IN ('sin', 'cos', 'tan', 'sin_', 'cos_', 'tan_', 'Sin', 'Cos', 'Tan')
