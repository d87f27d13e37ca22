{{ config(materialized='incremental', incremental_strategy='append', order_by='day', settings={'index_granularity': 1024}) }}
SELECT day, count() AS flights
FROM {{ ref('flights') }}
WHERE day <= toDate('{{ env_var("UNTIL") }}')
{% if is_incremental() %} AND day > (SELECT max(day) FROM {{ this }}) {% endif %}
GROUP BY day
