"""Operations on the archive, the lake and the warehouse as plain functions, without Dagster."""
