{{ config(order_by='carrier', engine='MergeTree()') }}
SELECT c.carrier AS carrier, c.name AS name, count() AS flights, max(f.delay) AS latest
FROM {{ ref('flights') }} AS f
INNER JOIN {{ ref('carriers') }} AS c ON f.carrier = c.carrier
GROUP BY c.carrier, c.name
