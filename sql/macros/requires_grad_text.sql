-- requires_grad_text(own, other): whether a tensor is trained, where that is not so on the other side.
CREATE OR REPLACE MACRO requires_grad_text(own, other) AS
if(own <> other, ', requires_grad ' || own::VARCHAR, '')
