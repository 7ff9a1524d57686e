-- known_before(sights, number, norm): of the ops (a list of number and norm) at which a value was seen, those before the op
-- `number` whose value has this norm: extremes alone may be those of another value.
CREATE OR REPLACE MACRO known_before(sights, number, norm) AS
list_transform(
    list_filter(
        coalesce(sights, []),
        lambda sight: sight.number < number AND coalesce(abs(sight.norm - norm) <= getvariable('same_norm') * norm, true)
    ),
    lambda sight: sight.number
)
