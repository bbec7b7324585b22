-- Writes the next beat of a pipeline.
INSERT INTO {table} AS last (pipeline, beat) VALUES ({pipeline}, {first})
ON CONFLICT (pipeline) DO UPDATE SET beat = {next}
