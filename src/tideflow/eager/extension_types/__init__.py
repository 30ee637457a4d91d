"""Classes of values that users and libraries define: what they are made of, and their specs.

`type_specs` has the classes of specs that libraries derive from, `composites` those of values,
`annotations` the rules of fields, `extension_type` the classes of users, and `batching` how values
of them become rows of a batch.
"""
