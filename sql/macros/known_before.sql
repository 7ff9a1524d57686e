-- known_before(sights, number, norm): of the ops (a list of number and norm) that recorded a value, those before the op
--   `number` and with this norm: equal extremes alone may belong to another value.
CREATE OR REPLACE MACRO known_before(sights, number, norm) AS
list_transform(
    list_filter(
        coalesce(sights, []),
        lambda sight: sight.number < number AND coalesce(abs(sight.norm - norm) <= getvariable('same_norm') * norm, true)
    ),
    lambda sight: sight.number
)
