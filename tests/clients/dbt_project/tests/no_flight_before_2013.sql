SELECT * FROM {{ ref('flights') }} WHERE day < toDate('2013-01-01')
