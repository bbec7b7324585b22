-- One beat, as JSON.
jsonb_build_object('at', clock_timestamp(), 'mark', {mark}::text, 'slot', {slot}, 'previous', {previous})::text
