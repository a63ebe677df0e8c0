-- What happened in each queue in each hour. Hours that may have changed since the last run are made anew.
{{ config(materialized='incremental', unique_key='hour', incremental_strategy='delete+insert') }}

select
    vhost,
    queue,
    date_trunc('hour', "at") as hour,
    count_if(event = 'published') as published,
    count_if(event = 'delivered') as delivered,
    count_if(event = 'settled' and reason = 'acked') as acked,
    count_if(event = 'settled' and reason <> 'acked') as not_acked,
    quantile_cont(held_ms, 0.95) as held_p95_ms
from iceberg_scan('{{ env_var("LEVERET_ARCHIVE") }}/events')
{% if is_incremental() %}
where "at" >= (select max(hour) - interval 1 hour from {{ this }})
{% endif %}
group by all
