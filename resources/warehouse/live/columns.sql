-- The first events of which the two say something different, and the columns in which they do.
CREATE OR REPLACE TEMP TABLE other_columns AS
SELECT project_id, namespace_id, title, mark, list_filter([{columns}], lambda one: one IS NOT NULL) AS columns
FROM (
  SELECT sample.project_id, sample.namespace_id, title, mark, streamed, filed
  FROM (FROM compared WHERE difference = '{different}' AND place <= {examples}) AS sample
  JOIN {streamed} AS streamed
    ON streamed.filename = streamed_row.filename AND streamed.file_row_number = streamed_row.file_row_number
  JOIN {filed} AS filed
    ON filed.filename = filed_row.filename AND filed.file_row_number = filed_row.file_row_number
)
