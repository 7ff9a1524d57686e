-- known_before(sights, number, norm, share): of the ops that recorded a value (sights), those before the op `number` and with
--   this norm, to a share of it: equal extremes alone may belong to another value. Most values have one norm, which is
--   compared once for all. An infinite one, as of scores beside a mask, is that of all infinite ones
CREATE OR REPLACE MACRO known_before(sights, number, norm, share) AS
coalesce(
    if(
        coalesce(
            isfinite(norm) AND greatest(abs(sights.least - norm), abs(sights.most - norm)) <= share * norm
            OR (sights.least = norm AND sights.most = norm),
            true
        ),
        list_filter(sights.numbers, lambda sight: sight < number),
        list_filter(
            sights.numbers,
            lambda sight, place: sight < number
            AND coalesce(
                isfinite(norm) AND abs(sights.norms[place] - norm) <= share * norm OR sights.norms[place] = norm, true
            )
        )
    ),
    []
)
