ANTI JOIN (FROM internal.hidden_rows WHERE file_row IS NULL) AS old ON
  file.filename = concat({root}, {path})
  AND file.batch_hour = old.batch_hour
  AND file.project_id = old.project_id
  AND file.namespace_id = old.namespace_id
