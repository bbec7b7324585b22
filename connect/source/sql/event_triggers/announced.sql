SELECT schema, "table", told FROM {files} JOIN {history} USING (relation) WHERE told <> ''
