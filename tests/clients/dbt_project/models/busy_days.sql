{{ config(materialized='view') }}

select day, flights from {{ ref('days') }} where flights > 1
