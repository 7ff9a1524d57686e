-- known_before(sights, number, norm, share): of the ops that recorded a value (sights), those before the op `number` and with
--   this norm, to a share of it: equal extremes alone may belong to another value. Most values have one norm, which is
--   compared once for all
CREATE OR REPLACE MACRO known_before(sights, number, norm, share) AS
coalesce(
    if(
        coalesce(greatest(abs(sights.least - norm), abs(sights.most - norm)) <= share * norm, true),
        list_filter(sights.numbers, lambda sight: sight < number),
        list_filter(
            sights.numbers,
            lambda sight, place: sight < number AND coalesce(abs(sights.norms[place] - norm) <= share * norm, true)
        )
    ),
    []
)
