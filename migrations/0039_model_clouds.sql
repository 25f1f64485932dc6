-- The cloud that hosts a custom model. Null for a plain API with a key.
alter table custom_models add column cloud text;
